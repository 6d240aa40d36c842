"""Rules for quantized arithmetic."""
