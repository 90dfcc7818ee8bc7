"""Which requests are admitted, and the threads and processes that work on them."""
