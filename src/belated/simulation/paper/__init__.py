"""The simulation study of Shi, Wang and Wu (2023)."""
