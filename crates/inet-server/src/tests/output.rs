//! Which queue to the driver a frame takes, and what waits for a driver.

use super::*;

const PORT: u16 = 7;

/// Sends so many datagrams to host b, or as many as there is room for.
fn flood(world: &World, program: &mut Program, sock: &mut Sock, count: usize) {
    let peer = SocketAddr::from((world.b.address, PORT));
    for _ in 0..count {
        if program.send(sock, &[1; 1000], Some(peer)) == 0 {
            break;
        }
    }
}

/// A world in which the hosts know each other, and two programs on host a with a socket each.
fn two_programs() -> (World, [(Program, Sock); 2]) {
    let mut world = World::new();
    let programs = [7, 8].map(|number| {
        let mut program = world.a.admit(number, PARAMS);
        let mut sock = world.socket(&mut program, SocketKind::Datagram);
        flood(&world, &mut program, &mut sock, 1);
        world.rest();
        (program, sock)
    });
    (world, programs)
}

/// Frames in the priority ring and in the other one.
fn waiting(world: &mut World) -> (u32, u32) {
    let driver = &mut world.a.driver;
    (driver.tx_priority.len().unwrap(), driver.tx.len().unwrap())
}

#[test]
fn a_program_with_little_under_way_does_not_wait_behind_a_flood() {
    let (mut world, [(mut busy, mut many), (mut calm, mut one)]) = two_programs();
    world.a.driver.stopped = true;
    flood(&world, &mut busy, &mut many, 40);
    world.rest();
    let (first, bulk) = waiting(&mut world);
    assert_eq!((first, bulk), (0, 40), "nobody else waits");
    flood(&world, &mut calm, &mut one, 2);
    world.rest();
    let after = waiting(&mut world);
    assert!(after.0 >= first + 2 && after.1 == 40, "{first}, then {after:?}");
    world.a.driver.stopped = false;
    world.rest();
    world.a.driver.stopped = true;
    flood(&world, &mut busy, &mut many, 3);
    world.rest();
    assert_eq!(waiting(&mut world), (0, 3), "the flood is over");
}

/// All that a program may have under way waits for the driver. Another one still sends, and in the
/// end everything is released.
#[test]
fn what_one_program_may_have_under_way_leaves_room_for_others() {
    let (mut world, [(mut busy, mut many), (mut calm, mut one)]) = two_programs();
    world.a.driver.stopped = true;
    for _ in 0..40 {
        flood(&world, &mut busy, &mut many, 40);
        world.rest();
    }
    let (first, bulk) = waiting(&mut world);
    assert!(bulk > 32, "{bulk}");
    flood(&world, &mut calm, &mut one, 2);
    world.rest();
    let after = waiting(&mut world);
    assert!(after.0 >= first + 2 && after.1 == bulk, "{first}, {bulk}, then {after:?}");
    world.a.driver.stopped = false;
    world.rest();
    assert_eq!(waiting(&mut world), (0, 0));
    assert_eq!(many.words.tx_released.load(Ordering::Acquire), many.sent);
}
