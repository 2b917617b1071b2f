"""The sharing of one machine between the servers of several models: ``headway share``.

reading     what is known of one server at one moment
server      one server: its status, and commands of a limit and of a pause that end by themselves
arbiter     one step: read all servers, decide, set lower limits before higher ones
metrics     what each server has, wants and uses, for Prometheus

``headway_policies.sharing`` decides.
"""
