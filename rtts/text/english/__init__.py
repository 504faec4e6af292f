"""English as it is spoken: numbers, symbols and abbreviations in words."""
