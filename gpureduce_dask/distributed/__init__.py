"""What talks to clusters: their workers, the homes of chunks, and handles."""
