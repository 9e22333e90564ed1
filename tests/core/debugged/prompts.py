"""A tasklet that asks for the debugger while another one waits."""

import roamlet

channel = roamlet.channel()
log = []


def asks():
    breakpoint()
    log.append("went on")
    roamlet.schedule()
    log.append("ended")


def answers():
    for got in channel:
        channel.send(answer_to(got))


def answer_to(got):
    log.append(got)
    return got + " answered"


other = roamlet.spawn(answers)
roamlet.spawn(asks).join()
channel.close()
other.join()
print(log)
