"""Handlers of `stablehlo.custom_call`, one file per library of targets."""
