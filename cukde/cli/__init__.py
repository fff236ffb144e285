"""The subcommands of ``cukde``; the module of each adds its parser and runs it."""
