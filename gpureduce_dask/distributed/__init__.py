"""What talks to clusters: their workers, the homes of chunks, handles, and partials from worker to worker."""
