"""Problems, trials and winners in files: the store, the lock file, what differs between stores."""
