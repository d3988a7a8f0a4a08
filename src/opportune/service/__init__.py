"""The live service: a pure engine, its journal, and the ways in.

``engine.decide`` turns a command into events and an answer, ``applying.apply`` turns an event
into the next state; neither knows a clock, a file or a generator of random numbers.

Where to look, each path in the order in which it is walked:

- a request comes in: ``http_limits``, ``api.gate``, ``api.relay`` (to the node that owns the pool),
  ``api.hot`` and the other handlers, ``owner`` (one command after another, written first, answered
  second).
- a server is picked: ``engine``, ``handling_tasks.create_task``, ``deciding.choose``, by the orders
  of ``ordering`` and ``routing``; ``exploring`` takes a share at random, ``contextual`` goes by the
  task's own context, ``filling`` does it for tasks that waited, ``explaining`` says why.
- a plan is made: ``planner`` (the whole way), ``plan_jobs`` (what was asked for), ``replanning``
  and ``drifting`` (what a pool asks for by itself); ``plan_runs`` and ``planning`` price, for large
  pools in ``pricing_process``; ``plan_parts`` writes large tables, ``handling_plans`` stores the
  plan and puts it in force; ``shadowing`` values a plan that only watches.
- a pool learns: ``learner`` reads the journal, ``learner_events`` and ``learner_counts`` count,
  ``learner_estimates`` publishes, ``learned`` says what the pool goes by.
- a pool moves between nodes: ``membership`` (what a node sees of the others), ``cluster`` and
  ``balancing`` (who is to take and give), ``tenures`` (taking, reading, handing over), ``leases``
  (who owns what), ``forwarding``.
- a server moves between sub-pools of a split pool: ``dealing`` (what a deal is), ``dealing_node``
  (when), ``dealing_commands`` and ``dealing_events``; ``dealing_pools`` shows the parts as one.
- it is stored: ``journal`` is the promise, ``sqlite``, ``postgres`` and ``memory`` keep it,
  ``storing`` and ``loading`` make bytes of a pool and a pool of bytes.
"""
