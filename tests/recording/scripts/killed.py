"""Is killed with -9 in the middle of a backward."""

from __future__ import annotations

import os
import signal

import torch

import oomph


class Kills(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return grad


net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
oomph.record(model=net, optimizer=optimizer, run_dir="run")
for step in range(4):  # noqa: B007 - the class above looks at it
    Kills.apply(net(torch.ones(2, 4))).sum().backward()
    optimizer.step()
