"""The instances: which there are, how each stands, and which one takes the next request.

discovery   instances that come and go: the addresses of DNS names
reading     what an instance says of itself: its limit, its load, its progress, its model
dialects    where each maker says that, and under which names
instance    one instance: its health, its load, what was sent to it
pool        all of them: which one takes the next request, and the requests that wait for a seat
step_reports, stream_pace   what they do, as steps of one engine
metrics     what is shown of them
"""
