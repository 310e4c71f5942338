"""Output of the test: lines with the time since its start, and assertions that say what they have checked."""
import time

STARTED = time.monotonic()


class Failed(Exception):
    pass


def say(text):
    print(f"{time.monotonic() - STARTED:7.1f}s  {text}", flush=True)


def check(condition, what):
    """An assertion that says what it has checked."""
    if not condition:
        raise Failed(what)
    say(f"  ok: {what}")


def wait_for(condition, what, seconds=300):
    """Waits until the condition is true. A failed command counts as false, because the API server may be restarting."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                break
            reason = "not so yet"
        except Failed as error:
            reason = error
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds} s ({reason})")
        time.sleep(2)
    say(f"  ok: {what}")
