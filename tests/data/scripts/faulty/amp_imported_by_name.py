import argparse

import torch
import torchvision
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader
from torchvision import transforms


def loaders(root, batch):
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    train = torchvision.datasets.ImageFolder(f"{root}/train", transform)
    return DataLoader(train, batch_size=batch, shuffle=True, num_workers=8, pin_memory=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--batch", type=int, default=128)
    args = parser.parse_args()

    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss().cuda()
    scaler = GradScaler(enabled=True)
    for epoch in range(90):
        for images, target in loaders(args.root, args.batch):
            images = images.cuda(non_blocking=True)
            target = target.cuda(non_blocking=True)
            with autocast(dtype=torch.float16):
                output = model(images)
                loss = criterion(output, target)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save(model.state_dict(), f"epoch{epoch}.pt")


if __name__ == "__main__":
    main()
