"""What can be seen from outside: logs, metrics, health and the story of each pod.

This room records; it decides nothing and nothing waits for it. It knows values from below, and
neither the API client nor the loop: those hand it what they saw, or a function to ask when somebody
looks.
"""
