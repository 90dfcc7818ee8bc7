"""The subcommands of `assay`, one module each, which defines `command`."""
