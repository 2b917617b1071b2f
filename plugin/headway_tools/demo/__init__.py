"""The demo: a real server, the dashboard, light traffic of three classes and an overload, on one machine.

options    what the command line chose              prompts, traffic   the plan of the traffic, from a seed
parts      how the two child processes are called   drive              the plan carried out by the openai client
overload/  more than the engine can serve           server             calls to the two servers
children   processes that leave nothing behind      scrape, histogram  what the server counted
loading    what the server is doing before ready    summary, report    whether it adds up; the text of it
show       the whole, from the first check to the last line
"""
