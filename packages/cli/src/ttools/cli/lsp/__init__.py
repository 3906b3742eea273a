"""`ttools lsp`: the command, the server, and what it shows in an editor."""
