"""A loop's window as a picture: micro-batches as columns, what happens in each in order, what the gradients carry.

`loops` finds the training loops in the runs of files, `pictures` chooses what to show of each; `terminal` draws it
with rich, and `ampcheck.audit` in a page.
"""
