"""Several instances on one virtual clock: one desk with late binding, or a desk for each behind a stateless router.

fleet     the engines, and which of their steps ends next
binding   late binding: an instance is chosen when a request leaves the one queue
one_desk  the one desk before all instances
desks     a desk for each instance: an instance is chosen when a request arrives
arrival   the choices on arrival, to compare with
shell     the events of a run, and instances that die
run       one run
compare   the routers side by side
"""
