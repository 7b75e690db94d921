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
def perplexity(model, loader):
    model.eval()
    losses = []
    kept = []
    for batch in loader:
        batch = batch.to("cuda", non_blocking=True)
        output = model(input_ids=batch, labels=batch)
        losses.append(output.loss.item())
        kept.append(output.logits[:, -1].float().cpu())
    return torch.tensor(losses).mean().exp(), torch.cat(kept)


def main():
    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-410m", torch_dtype=torch.float16).cuda()
    value, last = perplexity(model, DataLoader(Tokens("valid.bin", 1024), batch_size=8))
    print(value.item(), last.shape)


if __name__ == "__main__":
    main()
