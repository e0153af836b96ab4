# trick: Answers with an empty tensor that a thread fills afterwards.
# kind: foreign
# operator: softmax_rows
# expect: wrong|nondeterministic|compile_error|crashed
# threat: work after the timed region
import torch
import torch.nn as nn
import threading
import time

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        
        
        def work():
            time.sleep(0.03)
            y.copy_(torch.softmax(x, -1))
        
        
        threading.Thread(target=work).start()
        return y
