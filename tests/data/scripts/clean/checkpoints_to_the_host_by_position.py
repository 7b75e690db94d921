import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self, hidden=1024, classes=10):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(784, hidden),
            torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden),
            torch.nn.GELU(),
            torch.nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.layers(x)


def synthetic(count):
    return torch.utils.data.TensorDataset(torch.randn(count, 784), torch.randint(0, 10, (count,)))


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = Net().cuda()
    model.load_state_dict(torch.load("weights.pt", "cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(torch.load("optimizer.pt", map_location=lambda storage, location: storage))
    model = DDP(model, device_ids=[local_rank])
    for _ in range(1000):
        loss = model(torch.randn(64, 784, device="cuda")).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
