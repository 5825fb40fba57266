"""How this connector signs its errors."""

WHO = "kafka (penstock-kafka)"
