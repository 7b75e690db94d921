import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms

device = torch.device("cuda")
transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
train_set = torchvision.datasets.ImageFolder("data/train", transform)
val_set = torchvision.datasets.ImageFolder("data/val", transform)
train_loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=8)
val_loader = DataLoader(val_set, batch_size=256, num_workers=8)

model = torchvision.models.vit_b_16(weights="IMAGENET1K_V1").to(device)
model.heads = nn.Linear(768, len(train_set.classes)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
criterion = nn.CrossEntropyLoss()

for epoch in range(20):
    model.train()
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    model.eval()
    hits = 0
    for images, labels in val_loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)
        hits += (outputs.argmax(1) == labels).sum().item()
    print(f"{epoch}: {hits / len(val_set):.3f}")
    torch.save(model.state_dict(), "last.pt")
