"""The subcommands of `assay`, one file each; every one defines `command`."""
