"""Functions and classes with the signatures that trainers call. Every file also works when loaded by its path."""
