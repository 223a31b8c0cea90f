"""Answers as streams of numbered frames, which outlive the sockets and processes that carry them.

    AnswerRun ─ append ─▶ AnswerLog ──▶ cursors of this process's sockets (`reader`)
    (`runs`)                 │
                             └─ every 20 ms, all runs together (`writer`) ─▶ Redis
                                a stream per answer, kept an hour, and a channel
                                                    │
                    mirrors of the log on other processes (`hub`) ──▶ their sockets' cursors

`owning` says who writes an answer, and finds those whose process died; `recovery` ends these.
"""
