"""The demo: a real server, the dashboard and light traffic of three classes, on one machine.

options    what the command line chose              prompts, traffic   the plan of the traffic, from a seed
parts      how the two child processes are called   drive              the plan carried out by the openai client
children   processes that leave nothing behind      scrape, summary    what was counted, and whether it adds up
loading    what the server is doing before it is ready
show       the whole, from the first check to the last line
"""
