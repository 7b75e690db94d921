"""Saliency maps need gradients, in evaluation as well."""

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


def saliency(model, loader):
    model.eval()
    maps = []
    for images, labels in loader:
        images = images.cuda().requires_grad_(True)
        scores = model(images)
        picked = scores.gather(1, labels.cuda().unsqueeze(1)).sum()
        (gradient,) = torch.autograd.grad(picked, images)
        maps.append(gradient.abs().amax(1).cpu())
    return torch.cat(maps)


def main():
    transform = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
    data = torchvision.datasets.ImageFolder("data/val", transform)
    model = torchvision.models.resnet50(weights="IMAGENET1K_V2").cuda()
    torch.save(saliency(model, DataLoader(data, batch_size=32)), "maps.pt")


if __name__ == "__main__":
    main()
