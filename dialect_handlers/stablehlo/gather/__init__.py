"""gather: `numbers` reads the dimension numbers, `strategies` are the ways to translate it."""
