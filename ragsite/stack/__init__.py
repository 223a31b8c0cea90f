"""The one-machine stack: every part of the system as a child process, from wheels."""
