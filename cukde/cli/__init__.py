"""The subcommands of ``cukde``: each module adds its parser and runs its command."""
