"""Agreement of annotators, decisions from their answers, and what these decide: people as judges and as a baseline."""
