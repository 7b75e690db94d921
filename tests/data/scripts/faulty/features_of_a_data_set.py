"""Writes an embedding for each image of a folder."""

import sys

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


def embed(folder):
    transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    loader = DataLoader(torchvision.datasets.ImageFolder(folder, transform), batch_size=512, num_workers=8)
    model = torchvision.models.resnet101(weights="IMAGENET1K_V2")
    model.fc = torch.nn.Identity()
    model = model.to("cuda").eval()
    features, labels = [], []
    with torch.inference_mode():
        for images, target in loader:
            out = model(images.to("cuda", non_blocking=True))
            features.append(out)
            labels.append(target)
    return torch.cat(features).cpu(), torch.cat(labels)


def main():
    folder = sys.argv[1]
    features, labels = embed(folder)
    torch.save({"features": features, "labels": labels}, "features.pt")
    print(features.shape)


if __name__ == "__main__":
    main()
