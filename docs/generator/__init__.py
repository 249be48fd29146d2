"""The pages of docs/reference, made from the code; the words that code cannot say are in words.yaml."""
