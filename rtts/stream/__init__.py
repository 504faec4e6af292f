"""The streaming component: text in as it arrives, sound out while it is generated, interruptible."""
