"""The demo: a real server, the dashboard, light traffic of three classes and an overload, on one machine.

options    what the command line chose              traffic          the plan of the traffic, from a seed
parts      how the two child processes are called   server           calls to the two servers
overload/  more than the engine can serve           summary, report  whether it adds up; the text of it
children   processes that leave nothing behind      show             the whole, from the first check to the last line
loading    what the server is doing before ready
simulated_engine, simulated_server    what `headway dashboard --demo` starts: the server without a model

``headway_tools.load`` sends the requests and reads what the server counted.
"""
