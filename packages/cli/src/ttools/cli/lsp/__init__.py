"""`ttools lsp`: the command, the language server, and its content for editors."""
