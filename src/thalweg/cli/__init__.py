"""The `thalweg` command: one module of this folder per subcommand."""
