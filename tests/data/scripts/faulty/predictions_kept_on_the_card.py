import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM


class Tokens(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self.data = torch.from_file(path, dtype=torch.int32, size=10_000_000).long()
        self.length = length

    def __len__(self):
        return len(self.data) // self.length

    def __getitem__(self, i):
        return self.data[i * self.length : (i + 1) * self.length]


class Labelled(torch.utils.data.Dataset):
    def __init__(self, path):
        self.rows = torch.load(path, map_location="cpu", weights_only=True)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@torch.no_grad()
def collect(model, loader):
    model.eval()
    logits = []
    for batch in loader:
        output = model(input_ids=batch.cuda())
        logits.append(output.logits)
    return torch.cat(logits)


def main():
    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-1.4b", torch_dtype=torch.float16).cuda()
    loader = DataLoader(Tokens("valid.bin", 2048), batch_size=8)
    scores = collect(model, loader)
    print(scores.float().logsumexp(-1).mean().item())


if __name__ == "__main__":
    main()
