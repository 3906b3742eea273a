// Starts `ttools lsp` and passes it the settings. The server implements everything else.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const settings = vscode.workspace.getConfiguration("ttools");
  const [command, ...args] = settings.get("command");
  const { reports, sanitizeOnSave, sanitizeOptions, limitSeconds } = settings;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "ttools",
    "ttools",
    { command, args, options: { cwd: folder } },
    {
      documentSelector: [{ scheme: "file", language: "python" }],
      initializationOptions: { reports, sanitizeOnSave, sanitizeOptions, limitSeconds },
      synchronize: { configurationSection: "ttools" },
    },
  );
  await client.start();
};

exports.deactivate = () => client?.stop();
