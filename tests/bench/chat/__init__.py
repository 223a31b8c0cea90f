"""What the chat's sockets cost: frames' delay, memory, CPU."""
