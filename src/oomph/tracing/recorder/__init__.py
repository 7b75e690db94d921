"""What the traced code does to memory, recorded operator by operator. `recorder.Recorder` is the centre."""
