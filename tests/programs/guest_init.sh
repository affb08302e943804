#!/bin/busybox sh
# The first process of a guest (tests/tests/storage_sg3). It waits for as many SCSI units as the file /units has lines
# "H:C:T:L NAME", gives each its name, and runs the files below /commands one after the other.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# A long line of output is one line.
stty -onlcr
for module in virtio_pci virtio_scsi sd_mod sg; do modprobe "$module"; done

# /unit/NAME is the generic device of a unit, /disk/NAME its block device.
mkdir -p /unit /disk
name() {
    for device in /sys/bus/scsi/devices/"$1"/scsi_generic/*; do ln -sf "/dev/${device##*/}" "/unit/$2"; done
    for device in /sys/bus/scsi/devices/"$1"/block/*; do ln -sf "/dev/${device##*/}" "/disk/$2"; done
    [ -c "/unit/$2" ] && [ -b "/disk/$2" ]
}
waited=0
while read -r place name; do
    until name "$place" "$name"; do
        sleep 0.1
        waited=$((waited + 1))
        [ "$waited" -lt 600 ] || { echo "no unit $place"; poweroff -f; }
    done
done </units

for command in /commands/*; do
    echo "BEGIN ${command##*/}"
    timeout 100 sh "$command" </dev/null 2>&1
    code=$?
    echo
    echo "END ${command##*/} $code"
done
poweroff -f
