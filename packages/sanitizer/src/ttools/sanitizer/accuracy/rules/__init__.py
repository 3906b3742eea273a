"""The rules by which the check `accuracy` computes the shadow of each operation's result."""
