"""What native code and Python share: interfaces of modules, layouts of records, memory regions."""
