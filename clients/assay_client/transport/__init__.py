"""HTTP exchanges over sockets: addresses, connections, and a blocking and an asynchronous transport."""
