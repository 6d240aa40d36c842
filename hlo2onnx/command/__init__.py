"""What the command line needs beside its options: checked paths, the summary, completion."""
