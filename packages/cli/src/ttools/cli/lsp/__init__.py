"""`ttools lsp`: the command, the language server, and the content that it shows in editors."""
