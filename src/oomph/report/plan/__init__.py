"""What a plan says, for people and for programs."""
