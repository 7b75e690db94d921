"""An LSTM over embedded tokens, with packed lengths."""

import torch

embedding = torch.nn.Embedding(20000, 300).cuda()
lstm = torch.nn.LSTM(300, 512, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2).cuda()
head = torch.nn.Linear(1024, 50).cuda()
parameters = [*embedding.parameters(), *lstm.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters)
for _ in range(3):
    tokens = torch.randint(0, 20000, (32, 128)).cuda()
    out, _ = lstm(embedding(tokens))
    loss = torch.nn.functional.cross_entropy(
        head(out).flatten(0, 1), torch.randint(0, 50, (32 * 128,)).cuda()
    )
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
