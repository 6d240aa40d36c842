"""scatter: `numbers` reads the dimension numbers, `places` says where the elements go."""
