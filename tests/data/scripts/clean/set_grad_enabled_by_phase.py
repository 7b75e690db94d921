import copy

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms

device = torch.device("cuda:0")
transform = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
sets = {phase: torchvision.datasets.ImageFolder(f"data/{phase}", transform) for phase in ("train", "val")}
loaders = {phase: DataLoader(data, batch_size=64, shuffle=phase == "train") for phase, data in sets.items()}


def train_model(model, criterion, optimizer, epochs):
    best = 0.0
    weights = copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        for phase in ("train", "val"):
            model.train(phase == "train")
            running_loss = 0.0
            hits = 0
            for inputs, labels in loaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * len(inputs)
                hits += (outputs.argmax(1) == labels).sum().item()
            score = hits / len(sets[phase])
            if phase == "val" and score > best:
                best = score
                weights = copy.deepcopy(model.state_dict())
    model.load_state_dict(weights)
    return model


net = torchvision.models.resnet18(weights="IMAGENET1K_V1").to(device)
train_model(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=1e-3), 25)
